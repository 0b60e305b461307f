SELECT i.id
FROM unnest($1::bigint[], $2::uuid[]) AS v (bucket, id)
JOIN instances i ON i.id = v.id AND i.bucket = v.bucket
ORDER BY i.id
FOR NO KEY UPDATE OF i
