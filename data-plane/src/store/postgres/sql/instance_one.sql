JOIN instances i ON i.id = v.id AND i.bucket = v.bucket
JOIN tenant_fences f ON f.tenant_no = i.tenant_no
JOIN births b ON b.instance_id = v.id AND b.bucket = v.bucket
