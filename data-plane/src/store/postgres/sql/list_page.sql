
  LIMIT $9
) i
JOIN births b ON b.instance_id = i.id AND b.bucket = i.bucket
WHERE f.tenant_id = $1 AND f.placement_epoch = $2
ORDER BY i.created_at DESC, i.id DESC
