"""Networks: backbones, growing heads, and the model that joins them."""
