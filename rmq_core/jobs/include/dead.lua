-- limit_of() returns the number of attempts after which a failed job is a dead letter: the job's own, else the queue's.
-- include: envelope
-- include: trimmed
local function headers_of(envelope)
  local _, stop, size = string.find(envelope, '^%S+ %a(%d+) ', history_end(envelope) + 1)
  return string.sub(envelope, stop + 1, stop + tonumber(size))
end
local function limit_of(envelope, queue_limit)
  return tonumber(string.match(headers_of(envelope), '"rmq%-attempts":"(%d+)"')) or queue_limit
end
local function bury(dead, envelope, cap)
  cut(dead, redis.call('LPUSH', dead, envelope), cap)
end
