-- In another layout, seek() registers a claim that waits for messages of some groups.
local seek
