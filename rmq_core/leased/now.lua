-- Returns the time of the server that holds the queue.
-- KEYS: ready, which leads to that server
-- ARGV: none
-- Reply: 'now @<now ms>'.
-- include: clock
redis.call('EXISTS', ready)
return 'now @' .. clock()
