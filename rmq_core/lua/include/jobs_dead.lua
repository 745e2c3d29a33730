-- Whether a job that failed goes back or is a dead letter: at its own limit of attempts, else at the queue's.
-- include: envelope
local function limit_of(envelope, queue_limit)
  return tonumber(string.match(headers_of(envelope), '"rmq%-attempts":"(%d+)"')) or queue_limit
end
local function bury(dead, envelope, cap)
  redis.call('LPUSH', dead, envelope)
  redis.call('LTRIM', dead, 0, cap - 1)
end
