  AND i.created_at > ?5
  AND (?6 IS NULL OR i.namespace = ?6)
  AND (?7 IS NULL OR i.sequence_id = ?7)
  AND (?8 IS NULL OR EXISTS (
    SELECT 1 FROM sequences s WHERE s.tenant_no = i.tenant_no AND s.id = i.sequence_id AND s.name = ?8
  ))
ORDER BY i.created_at DESC, i.id DESC
LIMIT ?9
