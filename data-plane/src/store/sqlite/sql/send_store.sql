INSERT INTO inbox (shard, instance_id, signal_id, kind, name, payload, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);
INSERT INTO once (tenant_no, kind, key, instance_id) VALUES (?8, 2, ?9, ?2);
