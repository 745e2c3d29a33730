"""The operations of a rotation queue as exchanges: generators that yield requests and get replies. No IO, no clock."""
