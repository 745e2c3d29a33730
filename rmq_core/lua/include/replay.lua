-- The call slot KEYS[1] holds '<seq> <reply>' of the last call made through it. A resend of that call gets its reply;
-- a call older than it arrives too late to have an effect. remember() is the last thing a script does.
local function replay()
  local stored = redis.call('GET', KEYS[1])
  if not stored then return nil end
  local space = string.find(stored, ' ', 1, true)
  local seq, mine = tonumber(string.sub(stored, 1, space - 1)), tonumber(ARGV[1])
  if seq < mine then return nil end
  if seq > mine then return 'superseded' end
  redis.call('PEXPIRE', KEYS[1], ARGV[2]) -- a write, so that a WAIT behind this call waits for the effect as well
  return string.sub(stored, space + 1)
end
local function remember(reply)
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. reply, 'PX', ARGV[2])
  return reply
end
-- A refusal is remembered too, or the first request could arrive after the answer to its resend and be granted then.
-- Where it is a script's first write, it begins with one that a full server does not deny.
local function refuse(reply)
  redis.call('PERSIST', KEYS[1])
  return remember(reply)
end
