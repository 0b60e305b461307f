SELECT m.seq, m.instance_id, f.tenant_id, m.signal_id, m.kind, m.name, m.payload
FROM inbox m
JOIN tenant_fences f ON f.tenant_no = m.tenant_no
WHERE m.shard = $1 AND m.seq > $3
  AND (SELECT l.shard FROM shard_leases l WHERE l.shard = $1 AND l.lease_epoch = $2) IS NOT NULL
ORDER BY m.seq
LIMIT $4
