  AND i.created_at > ?5
  AND i.created_at < ?6
  AND (?7 IS NULL OR i.namespace = ?7)
  AND (?8 IS NULL OR i.sequence_id = ?8)
  AND (?9 IS NULL OR EXISTS (
    SELECT 1 FROM sequences s WHERE s.tenant_no = i.tenant_no AND s.id = i.sequence_id AND s.name = ?9
  ))
ORDER BY i.created_at DESC, i.id DESC
LIMIT ?10
