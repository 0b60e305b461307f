SELECT j.turn_no, j.at, j.body
FROM tenant_fences f
JOIN instances i ON i.id = $3 AND i.bucket = $4 AND i.tenant_no = f.tenant_no
JOIN journal j ON j.instance_id = $3 AND j.bucket = $4 AND j.turn_no > $5
WHERE f.tenant_id = $1 AND f.placement_epoch = $2
ORDER BY j.turn_no
LIMIT $6
