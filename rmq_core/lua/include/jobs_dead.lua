-- Whether a job that failed goes back or is a dead letter: at its own limit of attempts, else at the queue's.
local function limit_of(envelope, queue_limit)
  local _, stop, length = string.find(envelope, '^%d+ %d+ (%d+) ')
  local _, head, size = string.find(envelope, '^%S+ %a(%d+) ', stop + tonumber(length) + 1)
  local headers = string.sub(envelope, head + 1, head + tonumber(size))
  return tonumber(string.match(headers, '"rmq%-attempts":"(%d+)"')) or queue_limit
end
local function bury(dead, envelope, cap)
  redis.call('LPUSH', dead, envelope)
  redis.call('LTRIM', dead, 0, cap - 1)
end
