"""Networks: backbones, heads that grow, and the model that joins them."""
