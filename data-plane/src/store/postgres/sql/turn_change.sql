-- Only instances of which the row says something else reach this statement. One without an end stays open.
UPDATE instances i
SET status = coalesce(v.status, i.status), hot = v.closed_at IS NULL, closed_at = v.closed_at, error = v.error
FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::text[]) AS v (bucket, id, status, closed_at, error)
WHERE i.id = v.id AND i.bucket = v.bucket
