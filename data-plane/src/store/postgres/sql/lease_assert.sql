-- The row locks, taken in the order of shards so that no two writers wait for each other, and the assertion in one: an
-- owner whose epoch is not the stored one changes no row. The epoch is compared with the row as it is once it is locked.
WITH mine AS MATERIALIZED (
  SELECT l.shard
  FROM unnest($1::bigint[], $2::bigint[]) AS v (shard, lease_epoch)
  JOIN shard_leases l ON l.shard = v.shard AND l.lease_epoch = v.lease_epoch
  ORDER BY l.shard
  FOR NO KEY UPDATE OF l
)
UPDATE shard_leases
SET commit_seq = commit_seq + 1
FROM mine
WHERE shard_leases.shard = mine.shard
RETURNING shard_leases.shard
