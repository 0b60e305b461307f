
    AND i.created_at > $5
    AND ($6::text IS NULL OR i.namespace = $6)
    AND ($7::uuid IS NULL OR i.sequence_id = $7)
    AND ($8::text IS NULL OR (
      SELECT s.version FROM sequences s WHERE s.tenant_no = f.tenant_no AND s.id = i.sequence_id AND s.name = $8
    ) IS NOT NULL)
  ORDER BY i.created_at DESC, i.id DESC
  LIMIT $9
) i
JOIN births b ON b.instance_id = i.id AND b.bucket = i.bucket
WHERE f.tenant_id = $1 AND f.placement_epoch = $2
ORDER BY i.created_at DESC, i.id DESC
