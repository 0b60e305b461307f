  i.id, f.tenant_id, f.placement_epoch, i.shard, b.continuity_id, i.sequence_id, i.namespace, i.priority,
  b.timezone, b.data, b.config, b.metadata, i.created_at, i.fire_at, i.status, i.closed_at, i.error
