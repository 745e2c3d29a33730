-- In another layout, `moved` tells that the publisher knows no longer in which shards messages are stored.
local moved
