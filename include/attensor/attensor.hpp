#pragma once
/// \file
/// Everything in attensor that needs Eigen and threads alone, in the order in which it builds up.

#include "attensor/core/build_info.hpp"
#include "attensor/core/check.hpp"
#include "attensor/core/creation.hpp"
#include "attensor/core/error.hpp"
#include "attensor/core/layout.hpp"
#include "attensor/core/parallel.hpp"
#include "attensor/core/random.hpp"
#include "attensor/core/shape.hpp"
#include "attensor/core/tensor.hpp"

#include "attensor/ops/activation.hpp"
#include "attensor/ops/cross_entropy.hpp"
#include "attensor/ops/dropout.hpp"
#include "attensor/ops/embedding.hpp"
#include "attensor/ops/layer_norm.hpp"
#include "attensor/ops/linear.hpp"
#include "attensor/ops/rms_norm.hpp"
#include "attensor/ops/sinusoidal_encoding.hpp"
#include "attensor/ops/softmax.hpp"

#include "attensor/attention/attention.hpp"
#include "attensor/attention/heads.hpp"
#include "attensor/attention/mask.hpp"

#include "attensor/layers/dropout.hpp"
#include "attensor/layers/embedding.hpp"
#include "attensor/layers/encoder.hpp"
#include "attensor/layers/encoder_layer.hpp"
#include "attensor/layers/feed_forward.hpp"
#include "attensor/layers/linear.hpp"
#include "attensor/layers/multi_head_attention.hpp"
#include "attensor/layers/norm.hpp"
#include "attensor/layers/parameter.hpp"
#include "attensor/layers/positional_encoding.hpp"
#include "attensor/layers/self_attention.hpp"

#include "attensor/models/text_classifier.hpp"

#include "attensor/optim/adam.hpp"
#include "attensor/optim/clip_grad_norm.hpp"
#include "attensor/optim/schedule.hpp"
#include "attensor/optim/sgd.hpp"

#include "attensor/io/heatmap.hpp"
