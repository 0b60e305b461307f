SELECT v.n, f.tenant_no
FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS v (n, tenant_id, placement_epoch)
JOIN tenant_fences f ON f.tenant_id = v.tenant_id AND f.placement_epoch = v.placement_epoch
WHERE f.tenant_id = ANY($2::text[]) AND f.mode IN ('active', 'guest')
  -- somebody waits to change it
  AND (SELECT c.until FROM fence_calls c WHERE c.tenant_id = v.tenant_id AND c.until > now()) IS NULL
ORDER BY f.tenant_id
FOR SHARE OF f
