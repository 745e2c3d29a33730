-- Returns the deduplication digests of the next messages of a stage; changes nothing.
-- KEYS: stage
-- ARGV: most:number, of how many messages
-- Reply: {messages in the stage, for each of the next ones the digest of its key or, without one, '-'}.
-- include: envelope
local found, digests = redis.call('LRANGE', stage, 0, most - 1), {}
for i = 1, #found do
  local head = string.sub(found[i], 1, 80) -- enough for the fields, and cheap to search
  digests[#digests + 1] = string.match(head, '^\1%d+ (%S+) ', (history_end(head) or 0) + 1) or '-'
end
return {redis.call('LLEN', stage), digests}
