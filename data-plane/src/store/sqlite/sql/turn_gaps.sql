-- Takes back those of the rows just appended that do not follow their predecessor.
DELETE FROM journal
WHERE rowid BETWEEN ?1 AND ?2
  AND turn_no > 0
  AND NOT EXISTS (
    SELECT 1 FROM journal p WHERE p.instance_id = journal.instance_id AND p.turn_no = journal.turn_no - 1
  )
