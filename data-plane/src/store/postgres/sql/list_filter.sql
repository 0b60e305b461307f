
  AND ($6::text IS NULL OR i.namespace = $6)
  AND ($7::uuid IS NULL OR i.sequence_id = $7)
  AND ($8::text IS NULL OR (
    SELECT s.version FROM sequences s WHERE s.tenant_no = f.tenant_no AND s.id = i.sequence_id AND s.name = $8
  ) IS NOT NULL)
