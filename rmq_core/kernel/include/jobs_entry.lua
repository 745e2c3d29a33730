-- Entries of the jobs stream: field e is the envelope. drop() deletes entries from the stream and from the pending
-- list of the group, and returns how many of them were still pending; with XACKDEL (Redis 8.2) it is one command.
local function envelope_of(fields)
  for i = 1, #fields, 2 do
    if fields[i] == 'e' then return fields[i + 1] end
  end
  return nil
end
local function drop(ready, group, native, ids)
  if native then
    local gone = 0
    for _, verdict in ipairs(redis.call('XACKDEL', ready, group, 'IDS', #ids, unpack(ids))) do
      if verdict == 1 then gone = gone + 1 end
    end
    return gone
  end
  local acked = redis.call('XACK', ready, group, unpack(ids))
  redis.call('XDEL', ready, unpack(ids))
  return acked
end
local function tell(events, cap, event, ids, detail)
  if cap > 0 and #ids > 0 then
    redis.call('XADD', events, 'MAXLEN', '~', cap, '*', 'event', event, 'ids', table.concat(ids, ' '), 'detail', detail or '')
  end
end
