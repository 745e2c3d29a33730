"""What a reliable queue can do, as exchanges: generators that yield requests and receive replies. No IO, no clock."""
