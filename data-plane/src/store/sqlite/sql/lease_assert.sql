-- The row lock and the assertion in one: an owner whose epoch is not the stored one changes no row.
WITH v (shard, lease_epoch) AS (VALUES (?, ?))
UPDATE shard_leases
SET commit_seq = commit_seq + 1
FROM v
WHERE shard_leases.shard = v.shard AND shard_leases.lease_epoch = v.lease_epoch AND v.shard IS NOT NULL
RETURNING shard_leases.shard
