SELECT m.seq, m.instance_id, f.tenant_id, m.signal_id, m.kind, m.name, m.payload
FROM inbox m
JOIN tenant_fences f ON f.tenant_no = m.tenant_no
WHERE m.instance_id = $1
ORDER BY m.seq
LIMIT $2
