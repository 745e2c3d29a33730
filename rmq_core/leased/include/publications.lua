-- Publications are counted where messages wait in groups.
if slot then return redis.error_reply('WRONGTYPE the queue has no groups') end
