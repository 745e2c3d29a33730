-- The call slot holds '<seq> <reply>' of the last call made through it. A resend of that call gets its reply; an older
-- call arrives too late and has no effect. A script calls remember() last.
local function replay()
  local stored = redis.call('GET', slot)
  if not stored then return nil end
  local space = string.find(stored, ' ', 1, true)
  local last, mine = tonumber(string.sub(stored, 1, space - 1)), tonumber(seq)
  if last < mine then return nil end
  if last > mine then return 'superseded' end
  redis.call('PEXPIRE', slot, slot_ttl_ms) -- a write, so that a WAIT after this call also waits for the original effect
  return string.sub(stored, space + 1)
end
local function remember(reply)
  redis.call('SET', slot, seq .. ' ' .. reply, 'PX', slot_ttl_ms)
  return reply
end
-- A refusal is remembered too. Otherwise the first request could arrive after the reply to its resend and then be
-- granted. refuse() starts with PERSIST, which Redis at `maxmemory` allows even as the first write of a script.
local function refuse(reply)
  redis.call('PERSIST', slot)
  return remember(reply)
end
