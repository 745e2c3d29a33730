-- In another layout, distinct() returns the messages whose keys no unsettled message has, and a verdict for each.
local distinct
