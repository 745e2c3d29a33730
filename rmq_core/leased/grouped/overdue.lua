-- bury() makes dead letters of messages that expired while they waited, of 500 or about 8 MiB at a time, and returns how many
-- more have expired. While the ids of some have been returned to no client, it adds '~!' to the ids of expired leases.
-- KEYS: dead
-- include: list_expired
-- include: publications
-- include: unique
local function bury(now)
  local due, letters, ids, fields, gone, names, met, bytes = {}, {}, {}, {}, {}, {}, {}, 0
  local over = redis.call('ZCOUNT', expiring, '-inf', now)
  if over > 0 then
    redis.call('PERSIST', expiring) -- Redis allows this write at maxmemory, and then every later write of the script
    due = redis.call('ZRANGEBYSCORE', expiring, '-inf', now, 'LIMIT', 0, 500)
  end
  for i = 1, #due do
    local name, number = string.sub(due[i], 16), string.sub(due[i], 1, 15) - 5e14
    local field, r = name .. '\0' .. number, record_of(name)
    local envelope = redis.call('HGET', grouped, field)
    gone[i] = due[i]
    if envelope then
      local count, kept, history, body = parts_of(envelope)
      local entry = table.concat({'unclaimed', now, '', 'expired while it waited'}, '\t') .. '\n'
      if r.suspects > 0 and select(2, mark_of(envelope)) > 0 then r.suspects = r.suspects - 1 end
      fields[#fields + 1], letters[#letters + 1] = field, written(count, kept, history, entry, body)
      ids[#ids + 1], bytes = message_id(envelope), bytes + #envelope
      if not met[name] then met[name], names[#names + 1] = true, name end
      r.count, line_of().count = r.count - 1, line_of().count - 1
      if in_line(r) then line.claimable = line.claimable - 1 end
      if number == r.first then -- what the group may have rested for
        r.first, r.until_ms = number + 1, 0
        if r.place == 'r' then r.place = 'n' end
      end
    end
    if bytes >= 8388608 then break end
  end
  if #fields > 0 then
    redis.call('HDEL', grouped, unpack(fields))
    redis.call('LPUSH', dead, unpack(letters))
    redis.call('RPUSH', overdue, unpack(ids))
    counted(letters, {waiting = -1, dead = 1})
    keep_counts()
    set_unique(letters)
    for i = 1, #names do skip_gaps(names[i], known[names[i]]) end
    enter(names)
    store(names)
  end
  if #gone > 0 then redis.call('ZREM', expiring, unpack(gone)) end
  if late_ids[#late_ids] ~= '~!' and redis.call('EXISTS', overdue) == 1 then late_ids[#late_ids + 1] = '~!' end
  return over - #gone
end
