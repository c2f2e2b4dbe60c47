"""What is measured in a rejection besides the rules: each a small figure that can be explained."""
