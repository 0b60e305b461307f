SELECT m.seq, m.instance_id, f.tenant_id, m.signal_id, m.kind, m.name, m.payload
FROM inbox m
CROSS JOIN instances i ON i.id = m.instance_id
CROSS JOIN tenant_fences f ON f.tenant_no = i.tenant_no
WHERE m.shard = ?1 AND m.seq > ?3
  AND EXISTS (SELECT 1 FROM shard_leases l WHERE l.shard = ?1 AND l.lease_epoch = ?2)
ORDER BY m.seq
LIMIT ?4
