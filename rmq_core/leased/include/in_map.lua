-- In another layout, `moved` is true or false: it tells that the publisher knows no longer in which shards messages are stored.
local moved
