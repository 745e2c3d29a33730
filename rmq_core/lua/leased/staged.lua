-- Tells the deduplication keys of the next messages of a stage; changes nothing.
-- KEYS: stage
-- ARGV: most:number, of how many messages
-- Reply: {messages in the stage, for each of the next ones the digest of its key, or '-'}.
local found, digests = redis.call('LRANGE', stage, 0, most - 1), {}
for i = 1, #found do
  digests[#digests + 1] = string.match(string.sub(found[i], 1, 80), '^%d+ %d+ %d+ \1%d+ (%S+) ') or '-'
end
return {redis.call('LLEN', stage), digests}
