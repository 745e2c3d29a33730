-- In the layout of shards: `moved` is true if the publisher has an outdated map of the shards; called() returns ' !' if
-- consumers wait for messages of any shard, and '' if none does.
local moved, called
