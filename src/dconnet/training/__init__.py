"""From a start to a trained network: the outer loops, the subproblem of a neuron, the output layer."""
