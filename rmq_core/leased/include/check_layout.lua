-- Refuses, in a queue with groups, to end a lease that may hold some: its token shows that. Only a script that reads none
-- of the waiting messages needs this.
if string.find(token, '.g', 1, true) then redis.call('LLEN', ready) end
