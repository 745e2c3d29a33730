"""The operations of a stream queue as exchanges: generators that yield requests and get replies. No IO, no clock."""
