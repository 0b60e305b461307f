INSERT INTO inbox (shard, instance_id, tenant_no, seq, signal_id, kind, name, payload, at)
SELECT $1::bigint, $2::uuid, $3::bigint, v.seq, v.signal_id, v.kind, v.name, v.payload, v.at
FROM unnest($4::bigint[], $5::text[], $6::text[], $7::bytea[], $8::bytea[], $9::bigint[])
  AS v (seq, signal_id, kind, name, payload, at)
