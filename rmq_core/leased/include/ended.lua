-- In another layout, ended() is called when a lease has ended, whose keys are deleted, and lets others have what it held.
local ended
