"""What unpooling of planes and of volumes shares."""
