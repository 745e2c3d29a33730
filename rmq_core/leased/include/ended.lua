-- In another layout, ended() is called when a lease has ended, whose keys are deleted, and lets others have what it held;
-- acked_alone() counts messages that are acked one by one.
local ended, acked_alone
