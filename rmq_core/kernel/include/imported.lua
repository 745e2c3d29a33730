-- An import stores its progress in the same atomic step as its messages. at_start() returns a refusal if the progress is
-- not what the caller read, because another import works under the same name. at_end() is called last.
local function at_start(progress, before)
  if (redis.call('GET', progress) or '') ~= before then return refuse('elsewhere') end
end
local function at_end(progress, after, keep_ms)
  redis.call('SET', progress, after, 'PX', keep_ms)
  return remember('imported')
end
