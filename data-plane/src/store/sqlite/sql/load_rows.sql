FROM v
CROSS JOIN instances i ON i.id = v.id
CROSS JOIN tenant_fences f ON f.tenant_no = i.tenant_no
CROSS JOIN births b ON b.instance_id = i.id
LEFT JOIN errors e ON e.instance_id = i.id
LEFT JOIN snapshots s ON s.instance_id = i.id
WHERE v.id IS NOT NULL
