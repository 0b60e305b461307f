FROM tenant_fences f
CROSS JOIN instances i ON i.id = ?3 AND i.tenant_no = f.tenant_no
CROSS JOIN births b ON b.instance_id = i.id
LEFT JOIN errors e ON e.instance_id = i.id
WHERE f.tenant_id = ?1 AND f.placement_epoch = ?2
