INSERT INTO births (bucket, instance_id, continuity_id, timezone, data, config, metadata)
SELECT v.bucket, v.instance_id, v.continuity_id, v.timezone, v.data, v.config, v.metadata
FROM unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[])
  AS v (bucket, instance_id, continuity_id, timezone, data, config, metadata)
