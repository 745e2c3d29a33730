-- In another layout, arrived() counts messages that were added to the queue. letters: the dead letters that they were before.
local arrived
