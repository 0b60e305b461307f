SELECT j.turn_no, j.at, j.body
FROM tenant_fences f
CROSS JOIN instances i ON i.id = ?3 AND i.tenant_no = f.tenant_no
CROSS JOIN journal j ON j.instance_id = i.id AND j.turn_no > ?4
WHERE f.tenant_id = ?1 AND f.placement_epoch = ?2
ORDER BY j.turn_no
LIMIT ?5
