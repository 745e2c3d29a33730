-- Moves up to n jobs into the lease stream, at most 8 MiB: first those whose worker was silent for stale ms, then new
-- ones. The earlier, unacknowledged deliveries of a job are counted. Envelopes are returned if o.keep is set.
-- include: envelope
-- include: jobs_entry
local function read_jobs(ready, group, native, stale, n)
  local who, found = '~claims', {}
  if native then
    local reply = redis.call('XREADGROUP', 'GROUP', group, who, 'COUNT', n, 'CLAIM', stale, 'STREAMS', ready, '>')
    return reply and reply[1][2] or found
  end
  if redis.call('XPENDING', ready, group)[1] > 0 then
    for _, entry in ipairs(redis.call('XAUTOCLAIM', ready, group, who, stale, '0-0', 'COUNT', n)[2]) do
      if entry and entry[2] then
        local before = redis.call('XPENDING', ready, group, entry[1], entry[1], 1)[1]
        found[#found + 1] = {entry[1], entry[2], 0, before[4] - 1}
      end
    end
  end
  if #found < n then
    local reply = redis.call('XREADGROUP', 'GROUP', group, who, 'COUNT', n - #found, 'STREAMS', ready, '>')
    for _, entry in ipairs(reply and reply[1][2] or {}) do found[#found + 1] = entry end
  end
  return found
end
local function take_jobs(k, o, at, n)
  local taken, bytes, batch, kept = 0, 0, 16, {}
  while taken < n and bytes < 8388608 do
    local got = read_jobs(k.ready, o.group, o.native, o.stale, math.min(n - taken, batch))
    if #got == 0 then break end
    local ids = {}
    for i = 1, #got do
      local envelope = envelope_of(got[i][2])
      if envelope then
        local before = tonumber(got[i][4]) or 0
        if before > 0 then envelope = select(2, recount(envelope, {add = before, entry = ''})) end
        taken = taken + 1
        redis.call('XADD', k.lease, (at + taken) .. '-0', 'e', envelope)
        bytes = bytes + #envelope
        if o.keep then kept[#kept + 1] = envelope end
      end
      ids[i] = got[i][1]
    end
    drop(k.ready, o.group, o.native, ids)
    batch = math.max(1, math.min(4 * batch, 1000, math.ceil((8388608 - bytes) * taken / math.max(1, bytes))))
  end
  return taken, kept
end
